"""The paths of the API, below `/v1/`."""

from django.urls import path

from toolsys.api import documents, views_artifacts, views_calls, views_sessions, views_skills

urlpatterns = [
    # First what is asked most: they are tried in this order.
    path("runs/<uuid:run_id>/steps", views_calls.Steps.as_view()),
    path("sessions", views_sessions.Sessions.as_view()),
    path("sessions/<uuid:session_id>", views_sessions.Session.as_view()),
    path("sessions/<uuid:session_id>/runs", views_sessions.SessionRuns.as_view()),
    path("skills", views_skills.Skills.as_view()),
    path("runs/<uuid:run_id>", views_sessions.Run.as_view()),
    path("runs/<uuid:run_id>/cancel", views_sessions.EndRun.as_view(cancels=True), name="cancel-run"),
    path("runs/<uuid:run_id>/end", views_sessions.EndRun.as_view(), name="end-run"),
    path("runs/<uuid:run_id>/steps/<int:step_number>", views_calls.Step.as_view()),
    path("runs/<uuid:run_id>/invocations", views_calls.RunInvocations.as_view()),
    path("invocations/<uuid:invocation_id>", views_calls.Invocation.as_view()),
    path("invocations/<uuid:invocation_id>/explain", views_calls.ExplainInvocation.as_view()),
    path("invocations/<uuid:invocation_id>/cancel", views_calls.CancelInvocation.as_view(), name="cancel-call"),
    path("artifacts/<uuid:artifact_id>", views_artifacts.Artifact.as_view()),
    path("artifacts/<uuid:artifact_id>/content", views_artifacts.ArtifactContent.as_view()),
    path("openapi.json", documents.openapi, name="openapi"),
    path("docs", documents.Docs.as_view(url_name="openapi"), name="docs"),
]

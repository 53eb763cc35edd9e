"""Django's settings: one deployment-independent file; everything that differs comes from `config.env`.

`settings.TOOLSYS` is the frozen object of the product's own numbers (`settings.TOOLSYS.lease_seconds`). Only Django, as
named by DJANGO_SETTINGS_MODULE, imports this.
"""

from typing import Any

from django.utils.csp import CSP

from config.databases import database, pool_maximum
from config.datafolder import ROOT
from config.env import decode_master_keys, load

ENV, TOOLSYS = load()

SECRET_KEY = ENV.secret_key.get_secret_value()
MASTER_ENCRYPTION_KEYS = decode_master_keys(ENV.master_encryption_key.get_secret_value())
TOOLSYS_COMPOSITION = "config.wiring.compose_web"
TOOLSYS_MCP_RULES = "config.wiring.mcp_rules"
TOOLSYS_WEBHOOK_POLICY = "config.wiring.webhook_policy"
DEBUG = ENV.debug
ALLOWED_HOSTS = list(ENV.allowed_hosts)
CSRF_TRUSTED_ORIGINS = list(ENV.csrf_trusted_origins)
METRICS_DIR = ENV.prometheus_multiproc_dir
IS_PLAIN_HTTP = DEBUG or TOOLSYS.plain_http

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "django_rq",
    "django_prometheus",
    "toolsys",
    "mcpcatalog",
    "approvals",
    "config",
]

# What begins with `config.middleware` passes the API's calls by.
MIDDLEWARE = [
    "config.middleware.BeforePages",
    "toolsys.api.middleware.RequestIdMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "config.middleware.StaticFiles",
    "config.middleware.ContentSecurityPolicy",
    "config.middleware.Sessions",
    "django.middleware.common.CommonMiddleware",
    "config.middleware.Forms",
    "config.middleware.People",
    "config.middleware.Messages",
    "config.middleware.Frames",
    "toolsys.tenancy.ConsoleTenantMiddleware",
    "config.middleware.AfterPages",
]

ROOT_URLCONF = "config.urls"
WSGI_APPLICATION = "config.wsgi.application"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [ROOT / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "django.template.context_processors.csp",
            ]
        },
    }
]

# One database, three roles. An alias exists only where its URL is set: web and workers do without the owner.
DATABASES: dict[str, dict[str, Any]] = {
    "default": database(ENV.database_url.get_secret_value(), pool_maximum=pool_maximum(TOOLSYS.worker_threads))
}
if ENV.database_operator_url:
    DATABASES["operator"] = database(ENV.database_operator_url.get_secret_value())
if ENV.database_owner_url:
    DATABASES["owner"] = database(ENV.database_owner_url.get_secret_value(), is_bounded=False)
DATABASE_ROUTERS = ["toolsys.tenancy.Router"]

REDIS_URL = ENV.redis_url
RQ_QUEUES = {
    "calls": {
        "URL": REDIS_URL,
        "DEFAULT_TIMEOUT": 360,
        "DEFAULT_RESULT_TTL": 0,
        "SERIALIZER": "rq.serializers.JSONSerializer",
        "QUEUE_CLASS": "toolsys.queue.BellQueue",
    }
}
RQ = {"JOB_CLASS": "toolsys.queue.Bell"}
RQ_SHOW_ADMIN_LINK = False

REST_FRAMEWORK = {
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": [],
    "DEFAULT_AUTHENTICATION_CLASSES": ["toolsys.api.authentication.ApiKeyAuthentication"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "EXCEPTION_HANDLER": "toolsys.api.problems.handle",
    "UNAUTHENTICATED_USER": None,
    "UNAUTHENTICATED_TOKEN": None,
}
SPECTACULAR_SETTINGS = {
    "TITLE": "toolsys",
    "DESCRIPTION": "Governed tool execution for AI agents.",
    "VERSION": "1",
    "OAS_VERSION": "3.1.1",
    "SERVE_INCLUDE_SCHEMA": False,
    # It would describe the API with a generator that is not ours; the document that we serve is held against a test.
    "ENABLE_DJANGO_DEPLOY_CHECK": False,
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "REDOC_DIST": "SIDECAR",
}

SECURE_CSP = {
    "default-src": [CSP.SELF],
    "script-src": [CSP.SELF, CSP.NONCE],
    "style-src": [CSP.SELF, CSP.NONCE],
    "img-src": [CSP.SELF, "data:"],
    "object-src": [CSP.NONE],
    "base-uri": [CSP.NONE],
    "frame-ancestors": [CSP.NONE],
    "form-action": [CSP.SELF],
}
X_FRAME_OPTIONS = "DENY"
SESSION_COOKIE_SECURE = not IS_PLAIN_HTTP
CSRF_FAILURE_VIEW = "config.urls.stale_form"
CSRF_COOKIE_SECURE = not IS_PLAIN_HTTP
SECURE_SSL_REDIRECT = not IS_PLAIN_HTTP
SECURE_REDIRECT_EXEMPT = [r"^healthz$"]
SECURE_HSTS_SECONDS = 0 if IS_PLAIN_HTTP else 31_536_000
# A proxy terminates TLS in a deployment and must set (and strip) this header.
SECURE_PROXY_SSL_HEADER = None if IS_PLAIN_HTTP else ("HTTP_X_FORWARDED_PROTO", "https")

MAILERS: dict[str, dict[str, Any]] = {}
# Mail is optional: without a host the outbox offers webhooks only, which is no fault to warn of at each start.
SILENCED_SYSTEM_CHECKS = [
    "mail.W001",
    # They look for Django's middleware by name; ours is a subclass (Frames, Forms) that API calls pass by.
    "security.W002",
    "security.W003",
    # Whether subdomains and preload lists are bound as well is for who owns the domain: the proxy may say so.
    "security.W005",
    "security.W021",
]
if ENV.email_host:
    MAILERS["default"] = {
        "BACKEND": "django.core.mail.backends.smtp.EmailBackend",
        "OPTIONS": {
            "host": ENV.email_host,
            "port": ENV.email_port,
            "username": ENV.email_username,
            "password": ENV.email_password.get_secret_value(),
            "use_tls": ENV.email_starttls,
            "timeout": 15,
        },
    }
DEFAULT_FROM_EMAIL = ENV.email_from or "toolsys@localhost"

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in ("UserAttributeSimilarityValidator", "MinimumLengthValidator", "CommonPasswordValidator")
]
LOGIN_URL = "admin:login"

STATIC_URL = "static/"
STATIC_ROOT = None if IS_PLAIN_HTTP else ROOT / "static"
# From the packages directly under `make up`; collected, compressed and hashed in a deployment.
WHITENOISE_USE_FINDERS = IS_PLAIN_HTTP
_STATIC_STORAGE = (
    "django.contrib.staticfiles.storage.StaticFilesStorage"
    if IS_PLAIN_HTTP
    else "whitenoise.storage.CompressedManifestStaticFilesStorage"
)
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": _STATIC_STORAGE},
}

LANGUAGE_CODE = "en"
USE_I18N = False
USE_TZ = True
TIME_ZONE = "UTC"
# What people upload may hold secrets, and never touches the disk; what is too large is not taken.
FILE_UPLOAD_HANDLERS = ["django.core.files.uploadhandler.MemoryFileUploadHandler"]
FILE_UPLOAD_MAX_MEMORY_SIZE = 1_048_576
DATA_UPLOAD_MAX_MEMORY_SIZE = TOOLSYS.max_body_bytes

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"json": {"()": "config.logging.JsonFormatter"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "json"}},
    "root": {"handlers": ["stderr"], "level": ENV.log_level},
    # Django's own handlers would print every line twice, and to the console in another form.
    "loggers": {"django": {"handlers": [], "propagate": True}, "django.server": {"handlers": [], "propagate": True}},
}

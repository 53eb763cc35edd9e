-- What a session may still expect of a server is looked up once per authorization epoch, so a change raises it.

CREATE OR REPLACE FUNCTION mcpcatalog_raise_epoch_of_session() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE tenants SET authz_epoch = authz_epoch + 1 WHERE id = coalesce(NEW.tenant_id, OLD.tenant_id);
    RETURN NULL;
END $$;

CREATE TRIGGER raises_authz_epoch AFTER INSERT OR UPDATE OR DELETE ON mcp_session_servers
    FOR EACH ROW EXECUTE FUNCTION mcpcatalog_raise_epoch_of_session();

-- A tenant tightens what a tool is believed to do; only operators may say that it does less.

CREATE OR REPLACE FUNCTION mcpcatalog_guard_override() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF pg_has_role(current_user, 'toolsys_operator', 'MEMBER')
       OR NOT (coalesce(OLD.is_operators, false) OR coalesce(NEW.is_operators, false)) THEN
        RETURN coalesce(NEW, OLD);
    END IF;
    RAISE EXCEPTION 'servers are classified by operators' USING ERRCODE = 'insufficient_privilege';
END $$;

CREATE TRIGGER guard_override BEFORE INSERT OR UPDATE OR DELETE ON mcp_tool_overrides
    FOR EACH ROW EXECUTE FUNCTION mcpcatalog_guard_override();

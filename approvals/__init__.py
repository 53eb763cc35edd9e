"""approvals: policy matrix and rules, grants, votes and the pages to decide; implements the ports of toolsys."""

"""Pages to look at runs with: what a run directory holds, pictures and curves of passes, HTML, the server of dltb-view."""

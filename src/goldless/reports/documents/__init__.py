"""Result documents: what a run folder's JSON files hold, as types that writers, report and viewer share."""

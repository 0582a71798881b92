"""Result documents: the JSON files of a run folder, as types that writers, report and viewer share."""

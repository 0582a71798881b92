"""Support tickets with honest, empty, copying and foreign answers: studies that a careless metric ranks wrongly."""

from __future__ import annotations

from goldless.records import Response, Task
from goldless.studies import Study, study_from_records

TICKETS = (
    ("My invoice for May shows the annual fee twice and I want one of them refunded.",
     "We removed the second annual fee from your May invoice; the refund of 49 euros arrives within five days.",
     "Wir haben die doppelte Jahresgebühr von Ihrer Rechnung entfernt, die Gutschrift kommt in fünf Tagen."),
    ("The app logs me out every time I switch from mobile data to my home network.",
     "Version 4.2 keeps your session when the network changes; please update the app and sign in once more.",
     "Mit der Version 4.2 bleibt die Anmeldung beim Netzwechsel erhalten, bitte aktualisieren Sie die App."),
    ("I cannot export my report as a spreadsheet because the button stays grey.",
     "Exporting needs at least one saved filter; save the filter first and the spreadsheet button becomes active.",
     "Für den Export muss mindestens ein Filter gespeichert sein, danach ist die Schaltfläche aktiv."),
    ("How do I add a second administrator to our workspace without upgrading?",
     "Open Members, choose the colleague and set the role to administrator; every plan includes two of them.",
     "Öffnen Sie die Mitglieder, wählen Sie die Kollegin und vergeben Sie die Rolle Administrator."),
    ("Our webhook stopped firing after we rotated the signing secret yesterday evening.",
     "A new secret pauses deliveries until the endpoint confirms it; press confirm next to the webhook address.",
     "Ein neues Geheimnis hält Zustellungen an, bis der Endpunkt es bestätigt hat, bitte bestätigen Sie es."),
    ("The parcel tracking says delivered but nothing was left at my door this morning.",
     "The courier scanned it at the neighbour's, number 14; if it is not there we send a replacement tomorrow.",
     "Der Bote hat das Paket beim Nachbarn in Nummer 14 abgegeben, sonst senden wir morgen Ersatz."),
)  # fmt: skip
EMPTY = (
    "Thank you for reaching out to us about this matter, we really appreciate that you took the time to write and we "
    "want to assure you that your satisfaction is our highest priority, our dedicated team is always happy to help you"
)


def study(**agents: str) -> Study:
    """A study of the tickets; what each agent answers: good, german, empty, copy, or words of its own for all."""
    tasks = [Task(f"t{i}", prompt=ticket) for i, (ticket, _, _) in enumerate(TICKETS)]
    responses = [
        Response(task.task, agent, {"good": good, "german": german, "empty": EMPTY, "copy": ticket}.get(kind, kind))
        for task, (ticket, good, german) in zip(tasks, TICKETS, strict=True)
        for agent, kind in agents.items()
    ]
    return study_from_records(tasks, responses, name="tickets")

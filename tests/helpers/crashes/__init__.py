"""Kill a service again and again, roll back, forget, back up, damage copies; then compare it with an undisturbed twin.

    python -m tests.helpers.crashes --kills 200

A client that gets no response repeats its request, as clients do. The journal keeps a diary, by triggers, in the same
transactions that it records: it says in which batches examples were learned, and between which of them something was
forgotten or rolled back. A learner that was never killed does the same; its samples are those that the clients sent.
"""

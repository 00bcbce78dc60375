"""What a run writes and reads back, as typed records; `codec` turns them into JSON and back."""

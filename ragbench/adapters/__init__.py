"""What adapters to foreign code and servers share: one file per thing that they have in common."""

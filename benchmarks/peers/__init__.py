"""Other people's libraries, each as a user would call it."""

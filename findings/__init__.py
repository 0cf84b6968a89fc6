"""What makes the page of findings from the records here: `make findings`."""

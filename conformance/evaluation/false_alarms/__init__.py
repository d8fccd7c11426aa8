"""Campaigns for false alarms: correct implementations are judged on millions of cases, and none may fail."""

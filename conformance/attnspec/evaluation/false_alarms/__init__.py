"""Campaigns for false alarms: sound implementations are judged on cases by the million, and none may be accused."""

"""What operators see: metrics, spans, dashboards."""

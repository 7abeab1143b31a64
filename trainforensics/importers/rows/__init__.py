"""What row-shaped formats share: blocks of rows, their step axis and wall times, batch provenance, points."""

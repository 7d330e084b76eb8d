"""Scheduling for shared window joins over data streams: LWO, SWF and MQT."""

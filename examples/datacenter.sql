-- Sensors of a data centre: which locations are hot and humid at once?
-- The data is generated: python -m sash.workloads.datacenter examples/data

CREATE STREAM temperature (location INT, value DOUBLE, ts TIMESTAMP)
  TIMESTAMP BY ts SLACK 2 SECONDS
  FROM 'examples/data/temperature' FORMAT parquet;

CREATE STREAM humidity (location INT, value DOUBLE, ts TIMESTAMP)
  TIMESTAMP BY ts SLACK 2 SECONDS
  FROM 'examples/data/humidity' FORMAT parquet;

-- Q1: locations with a temperature and a humidity above their thresholds within one minute.
CREATE QUERY hot_and_humid AS
  SELECT A.location, A.value AS celsius, B.value AS humidity
  FROM temperature A, humidity B
  WHERE A.location = B.location AND A.value > 30 AND B.value > 60
  WINDOW 1 MINUTE
  INTO 'examples/output/hot_and_humid' FORMAT parquet;

-- Q2: all readings of a location, of both kinds, within one hour.
CREATE QUERY location_hour AS
  SELECT A.location, A.value AS celsius, B.value AS humidity
  FROM temperature A, humidity B
  WHERE A.location = B.location
  WINDOW 1 HOUR
  INTO 'examples/output/location_hour' FORMAT parquet;

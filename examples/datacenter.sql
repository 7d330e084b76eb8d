-- Sensors of a data centre, and ten questions of those who keep it cool: which locations are hot and humid at once?
-- All ten join the two streams in the same way, with windows and conditions of their own.
-- The data is generated: python -m sash.lab.workloads.datacenter examples/data

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

-- Q3: how many locations are hot and humid at the moment?
CREATE QUERY alarms AS
  SELECT COUNT(DISTINCT A.location) AS locations
  FROM temperature A, humidity B
  WHERE A.location = B.location AND A.value > 28 AND B.value > 55
  WINDOW 1 MINUTE
  INTO 'examples/output/alarms' FORMAT parquet;

-- Q4: the highest temperature and humidity of every location in the last hour.
CREATE QUERY location_peaks AS
  SELECT A.location, MAX(A.value) AS celsius, MAX(B.value) AS humidity
  FROM temperature A, humidity B
  WHERE A.location = B.location
  GROUP BY A.location
  WINDOW 1 HOUR
  INTO 'examples/output/location_peaks' FORMAT parquet;

-- Q5: where water condenses on cold pipes: the dew point, nearly a fifth of a degree below the air's temperature for
-- every percent of humidity that is missing, is above 18 degrees.
CREATE QUERY condensation AS
  SELECT A.location, round(A.value - (100 - B.value) / 5, 1) AS dew_point
  FROM temperature A, humidity B
  WHERE A.location = B.location AND A.value - (100 - B.value) / 5 > 18
  WINDOW 30 SECONDS
  INTO 'examples/output/condensation' FORMAT parquet;

-- Q6: where the air is dry and warm enough for sparks, by two readings that are hardly apart.
CREATE QUERY sparks AS
  SELECT A.location, A.value AS celsius, B.value AS humidity, A.ts AS measured
  FROM temperature A, humidity B
  WHERE A.location = B.location AND A.value > 22 AND B.value < 35
  WINDOW 5 SECONDS
  INTO 'examples/output/sparks' FORMAT parquet;

-- Q7: locations to walk to: each once, however often it was hot and humid in five minutes.
CREATE QUERY rounds AS
  SELECT DISTINCT A.location
  FROM temperature A, humidity B
  WHERE A.location = B.location AND A.value > 30 AND B.value > 55
  WINDOW 5 MINUTES
  INTO 'examples/output/rounds' FORMAT parquet;

-- Q8: a fan or a leak? Locations that were hot in the last quarter of an hour, but never humid as well.
CREATE QUERY hot_and_dry AS
  (SELECT A.location
   FROM temperature A, humidity B
   WHERE A.location = B.location AND A.value > 31
   WINDOW 15 MINUTES)
  EXCEPT
  (SELECT A.location
   FROM temperature A, humidity B
   WHERE A.location = B.location AND A.value > 31 AND B.value > 50
   WINDOW 15 MINUTES)
  INTO 'examples/output/hot_and_dry' FORMAT parquet;

-- Q9: aisles of a hundred locations in which more than five are hot and humid within ten minutes.
CREATE QUERY hot_aisles AS
  SELECT A.location // 100 AS aisle, COUNT(DISTINCT A.location) AS locations, MAX(A.value) AS celsius
  FROM temperature A, humidity B
  WHERE A.location = B.location AND A.value > 26 AND B.value > 50
  GROUP BY A.location // 100
  HAVING COUNT(DISTINCT A.location) > 5
  WINDOW 10 MINUTES
  INTO 'examples/output/hot_aisles' FORMAT parquet;

-- Q10: the climate of the whole room, by all that was measured in the last twenty seconds.
CREATE QUERY climate AS
  SELECT COUNT(*) AS readings, AVG(A.value) AS celsius, AVG(B.value) AS humidity
  FROM temperature A, humidity B
  WHERE A.location = B.location
  WINDOW 20 SECONDS
  INTO 'examples/output/climate' FORMAT parquet;

-- Objects that pass three cameras: which of them are seen by all, soon enough after each other?
-- The data is generated: sash workload cameras --out examples/data/cameras

CREATE STREAM camera1 (ObjID BIGINT, Speed DOUBLE, ts TIMESTAMP)
  TIMESTAMP BY ts
  FROM 'examples/data/cameras/camera1' FORMAT parquet;

CREATE STREAM camera2 (ObjID BIGINT, Speed DOUBLE, ts TIMESTAMP)
  TIMESTAMP BY ts
  FROM 'examples/data/cameras/camera2' FORMAT parquet;

CREATE STREAM camera3 (ObjID BIGINT, Speed DOUBLE, ts TIMESTAMP)
  TIMESTAMP BY ts
  FROM 'examples/data/cameras/camera3' FORMAT parquet;

-- A window for each pair: the longest time that an object may take from one camera to the other, either way.
CREATE QUERY seen_by_all_cameras AS
  SELECT A.ObjID, A.ts AS at_1, B.ts AS at_2, C.ts AS at_3
  FROM camera1 A, camera2 B, camera3 C
  WHERE A.ObjID = B.ObjID AND B.ObjID = C.ObjID
  WINDOW (A, B) = 20 SECONDS AND WINDOW (B, C) = 30 SECONDS AND WINDOW (A, C) = 40 SECONDS
  INTO 'examples/output/seen_by_all_cameras' FORMAT parquet;

-- Objects that pass four gates: which of them go all the way from A to D, or back from D to A?
-- The data is generated: sash workload path --out examples/data/path

CREATE STREAM gate_a (ObjID BIGINT, Speed DOUBLE, ts TIMESTAMP)
  TIMESTAMP BY ts
  FROM 'examples/data/path/gate_a' FORMAT parquet;

CREATE STREAM gate_b (ObjID BIGINT, Speed DOUBLE, ts TIMESTAMP)
  TIMESTAMP BY ts
  FROM 'examples/data/path/gate_b' FORMAT parquet;

CREATE STREAM gate_c (ObjID BIGINT, Speed DOUBLE, ts TIMESTAMP)
  TIMESTAMP BY ts
  FROM 'examples/data/path/gate_c' FORMAT parquet;

CREATE STREAM gate_d (ObjID BIGINT, Speed DOUBLE, ts TIMESTAMP)
  TIMESTAMP BY ts
  FROM 'examples/data/path/gate_d' FORMAT parquet;

-- DWINDOW has a direction: the second gate comes after the first. So there is a side for each way, in brackets.
CREATE QUERY went_all_the_way AS
  (SELECT A.ObjID, 'ABCD' AS way, A.ts AS began, D.ts AS ended
   FROM gate_a A, gate_b B, gate_c C, gate_d D
   WHERE A.ObjID = B.ObjID AND B.ObjID = C.ObjID AND C.ObjID = D.ObjID
   DWINDOW (A, B) = 10 SECONDS AND DWINDOW (B, C) = 20 SECONDS AND DWINDOW (C, D) = 15 SECONDS)
  UNION ALL
  (SELECT A.ObjID, 'DCBA' AS way, D.ts AS began, A.ts AS ended
   FROM gate_a A, gate_b B, gate_c C, gate_d D
   WHERE A.ObjID = B.ObjID AND B.ObjID = C.ObjID AND C.ObjID = D.ObjID
   DWINDOW (D, C) = 15 SECONDS AND DWINDOW (C, B) = 20 SECONDS AND DWINDOW (B, A) = 10 SECONDS)
  INTO 'examples/output/went_all_the_way' FORMAT parquet;

-- Packets on three links, of which only neighbours are connected: which packets pass all three?
-- The data is generated: sash workload network --set n_links=3 --set delayed=0.1 --out examples/data/network

CREATE STREAM customer (pid BIGINT, src INT, dst INT, size INT, ts TIMESTAMP)
  TIMESTAMP BY ts
  FROM 'examples/data/network/customer' FORMAT parquet;

CREATE STREAM backbone (pid BIGINT, src INT, dst INT, size INT, ts TIMESTAMP)
  TIMESTAMP BY ts
  FROM 'examples/data/network/backbone' FORMAT parquet;

CREATE STREAM exchange (pid BIGINT, src INT, dst INT, size INT, ts TIMESTAMP)
  TIMESTAMP BY ts
  FROM 'examples/data/network/exchange' FORMAT parquet;

-- No window is given for the first and the third link. A packet gets there by way of the second, so it is 400 ms.
CREATE QUERY passed_all_links AS
  SELECT C.pid, C.size, C.ts AS entered, E.ts AS arrived
  FROM customer C, backbone B, exchange E
  WHERE C.pid = B.pid AND B.pid = E.pid
  WINDOW (C, B) = 200 MILLISECONDS AND WINDOW (B, E) = 200 MILLISECONDS
  INTO 'examples/output/passed_all_links' FORMAT parquet;

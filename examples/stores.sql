-- Sales of three department stores through a day: which items are sold by all of them?
-- The data is generated: sash workload stores --out examples/data/stores

CREATE STREAM store1 (ItemNum INT, ItemName VARCHAR, Price DECIMAL(9, 2), Quantity INT, ts TIMESTAMP)
  TIMESTAMP BY ts
  FROM 'examples/data/stores/store1' FORMAT parquet;

CREATE STREAM store2 (ItemNum INT, ItemName VARCHAR, Price DECIMAL(9, 2), Quantity INT, ts TIMESTAMP)
  TIMESTAMP BY ts
  FROM 'examples/data/stores/store2' FORMAT parquet;

CREATE STREAM store3 (ItemNum INT, ItemName VARCHAR, Price DECIMAL(9, 2), Quantity INT, ts TIMESTAMP)
  TIMESTAMP BY ts
  FROM 'examples/data/stores/store3' FORMAT parquet;

-- One window for all streams. Every two of the three sales are less than an hour apart.
CREATE QUERY sold_by_all_stores AS
  SELECT A.ItemNum, A.ItemName, A.Quantity + B.Quantity + C.Quantity AS sold
  FROM store1 A, store2 B, store3 C
  WHERE A.ItemNum = B.ItemNum AND B.ItemNum = C.ItemNum
  WINDOW 1 HOUR
  INTO 'examples/output/sold_by_all_stores' FORMAT parquet;

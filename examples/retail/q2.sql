-- Which dear items were sold by both groups of stores within a minute?
-- The data is generated: python -m sash.lab.workloads.retail examples/data/retail

CREATE STREAM SalesStream_A (StoreID INT, ItemID INT, Price DECIMAL(9, 2), Quantity INT, ts TIMESTAMP)
  TIMESTAMP BY ts
  FROM 'examples/data/retail/sales_a' FORMAT parquet;

CREATE STREAM SalesStream_B (StoreID INT, ItemID INT, Price DECIMAL(9, 2), Quantity INT, ts TIMESTAMP)
  TIMESTAMP BY ts
  FROM 'examples/data/retail/sales_b' FORMAT parquet;

CREATE QUERY q2 AS
  SELECT DISTINCT SA.ItemID
  FROM SalesStream_A SA, SalesStream_B SB
  WHERE SA.ItemID = SB.ItemID AND SA.Price > 75.25
  WINDOW 1 MINUTE
  INTO 'examples/output/retail_q2' FORMAT parquet;

-- What was sold of a quarter of all items in the last minute, in total?
-- The data is generated: python -m sash.lab.workloads.retail examples/data/retail

CREATE STREAM SalesStream (StoreID INT, ItemID INT, Price DECIMAL(9, 2), Quantity INT, ts TIMESTAMP)
  TIMESTAMP BY ts
  FROM 'examples/data/retail/sales_a' FORMAT parquet;

CREATE QUERY q1 AS
  SELECT SUM(S.Price) AS total
  FROM SalesStream S
  WHERE S.ItemID > 982
  WINDOW 1 MINUTE
  INTO 'examples/output/retail_q1' FORMAT parquet;

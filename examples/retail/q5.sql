-- At which prices were favourite items sold by the first group of stores alone? Their sum, by item.
-- The data is generated: python -m sash.lab.workloads.retail examples/data/retail

CREATE STREAM SalesStream_A (StoreID INT, ItemID INT, Price DECIMAL(9, 2), Quantity INT, ts TIMESTAMP)
  TIMESTAMP BY ts
  FROM 'examples/data/retail/sales_a' FORMAT parquet;

CREATE STREAM SalesStream_B (StoreID INT, ItemID INT, Price DECIMAL(9, 2), Quantity INT, ts TIMESTAMP)
  TIMESTAMP BY ts
  FROM 'examples/data/retail/sales_b' FORMAT parquet;

CREATE TABLE FavoriteItems (ItemID INT)
  FROM 'examples/data/retail/FavoriteItems.csv' FORMAT csv;

CREATE QUERY q5 AS
  SELECT S.ItemID, SUM(S.Price) AS total
  FROM FavoriteItems F,
    (SELECT ItemID, Price FROM SalesStream_A MINUS SELECT ItemID, Price FROM SalesStream_B) AS S
  WHERE F.ItemID = S.ItemID
  GROUP BY S.ItemID
  WINDOW 1 MINUTE
  INTO 'examples/output/retail_q5' FORMAT parquet;

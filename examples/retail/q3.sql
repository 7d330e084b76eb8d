-- How many stores sold a favourite item in the last minute?
-- The data is generated: python -m sash.lab.workloads.retail examples/data/retail

CREATE STREAM SalesStream (StoreID INT, ItemID INT, Price DECIMAL(9, 2), Quantity INT, ts TIMESTAMP)
  TIMESTAMP BY ts
  FROM 'examples/data/retail/sales_a' FORMAT parquet;

CREATE TABLE FavoriteItems (ItemID INT)
  FROM 'examples/data/retail/FavoriteItems.csv' FORMAT csv;

CREATE QUERY q3 AS
  SELECT COUNT(DISTINCT S.StoreID) AS stores
  FROM SalesStream S, FavoriteItems F
  WHERE S.ItemID = F.ItemID
  WINDOW 1 MINUTE
  INTO 'examples/output/retail_q3' FORMAT parquet;

-- What did the favourite stores sell of each favourite item in the last minute?
-- The data is generated: python -m sash.lab.workloads.retail examples/data/retail

CREATE STREAM SalesStream (StoreID INT, ItemID INT, Price DECIMAL(9, 2), Quantity INT, ts TIMESTAMP)
  TIMESTAMP BY ts
  FROM 'examples/data/retail/sales_a' FORMAT parquet;

CREATE TABLE FavoriteItems (ItemID INT)
  FROM 'examples/data/retail/FavoriteItems.csv' FORMAT csv;

CREATE TABLE FavoriteStores (StoreID INT)
  FROM 'examples/data/retail/FavoriteStores.csv' FORMAT csv;

CREATE QUERY q4 AS
  SELECT SS.ItemID, SUM(SS.Price) AS total
  FROM FavoriteItems FI, SalesStream SS, FavoriteStores FS
  WHERE FI.ItemID = SS.ItemID AND SS.StoreID = FS.StoreID
  GROUP BY SS.ItemID
  WINDOW 1 MINUTE
  INTO 'examples/output/retail_q4' FORMAT parquet;

module pages

go 1.21

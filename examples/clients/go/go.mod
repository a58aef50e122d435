module headgate

go 1.22

"Data: where it is, how it is read, and synthetic datasets whose causes are known."

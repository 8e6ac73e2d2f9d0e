"Data: where it is, how it is read, and planted worlds whose causes are known."

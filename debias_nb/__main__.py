"`python -m debias_nb` is the command `debias-nb`."
from .commands.entry import main

if __name__ == "__main__":
    main()

"The commands, as `python -m debias_nb`."
from .commands.entry import main

if __name__ == "__main__":
    main()

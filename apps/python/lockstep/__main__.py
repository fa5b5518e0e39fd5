"""python -m lockstep --cmake-prefix: the folder for CMAKE_PREFIX_PATH, so that find_package(Lockstep) finds this package."""
import pathlib
import sys


def main():
    if sys.argv[1:] != ["--cmake-prefix"]:
        sys.exit("usage: python -m lockstep --cmake-prefix")
    print(pathlib.Path(__file__).resolve().parent)


main()

// Empty: it stands for the headers that CMake compiles with it, once for all tests.

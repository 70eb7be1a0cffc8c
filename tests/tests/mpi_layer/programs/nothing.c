/* A library that matters by its name alone. */
int mgcomp_tests_nothing;

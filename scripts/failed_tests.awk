# failed_tests.awk LOG: of each test that failed in a log of ctest, its name, the failures that googletest reported, and the last
# 25 lines that it printed.
/^[0-9]+\/[0-9]+ Testing: / { name = $3; count = left = 0; failures = "" }
/: Failure$|^\[  FAILED  \]|terminate called|ERROR: .*Sanitizer/ { left = 13 }
left > 0 { left--; failures = failures $0 "\n" }
{ last[count++ % 25] = $0 }
timed == 2 && !/^Test (Passed|Skipped)/ {
  printf "\n-- %s\n%sits last lines:\n", name, failures
  for (i = count > 25 ? count - 25 : 0; i < count; i++) print last[i % 25]
}
# The result stands two lines after the time.
{ timed = /^Test time = / ? 1 : timed == 1 ? 2 : 0 }

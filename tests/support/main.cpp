// main() of every test binary.
#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "support/thorough.h"

namespace {

// Thread pools size themselves when their library is loaded, which is before main(): so set the size and start over.
// One thread a process, because ranks are processes and the parent of forked ranks must have no threads.
void start_over_with_one_thread(char** argv) {
  if (std::getenv("OMP_NUM_THREADS") != nullptr) return;
  if (::setenv("OMP_NUM_THREADS", "1", 1) == 0) ::execv("/proc/self/exe", argv);
  std::perror("cannot restart the test with OMP_NUM_THREADS=1");
  std::exit(2);
}

// A skipped test is a test that proves nothing: say so where it is seen. scripts/run_tests.sh looks for these lines.
void print_skipped() {
  const auto& all = *testing::UnitTest::GetInstance();
  for (int i = 0; i < all.total_test_suite_count(); ++i) {
    const auto& suite = *all.GetTestSuite(i);
    for (int k = 0; k < suite.total_test_count(); ++k) {
      const auto& test = *suite.GetTestInfo(k);
      if (!test.result()->Skipped()) continue;
      std::printf("skipped: %s.%s:", test.test_suite_name(), test.name());
      for (int part = 0; part < test.result()->total_part_count(); ++part) {
        std::printf(" %s", test.result()->GetTestPartResult(part).message());
      }
      std::printf("\n");
    }
  }
}

// Not where the filter itself names them.
void leave_out_thorough_tests() {
  std::string filter = testing::GTEST_FLAG(filter);
  if (lockstep::test::thorough() || filter.find("Thorough") != std::string::npos) return;
  filter += filter.find('-') == std::string::npos ? "-" : ":";
  testing::GTEST_FLAG(filter) = filter + "Thorough*:*.Thorough*";
}

}  // namespace

int main(int argc, char** argv) {
  start_over_with_one_thread(argv);
  testing::InitGoogleTest(&argc, argv);
  leave_out_thorough_tests();
  const int result = RUN_ALL_TESTS();
  print_skipped();
  return result;
}

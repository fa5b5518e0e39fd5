#include <lockstep/global/rules/ops_page.h>

#include "support/read_file.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(OpsPage, TheFileIsWhatTheRulesSay) {
  EXPECT_TRUE(test::read_file(LOCKSTEP_OPS_PAGE) == global::ops_page())
      << LOCKSTEP_OPS_PAGE << " is not what the rules say any more; write it again: " << LOCKSTEP_OPS_PAGE_PROGRAM
      << " > " << LOCKSTEP_OPS_PAGE;
}

}  // namespace
}  // namespace lockstep

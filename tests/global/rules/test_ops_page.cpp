#include <lockstep/global/rules/signature.h>

#include "support/read_file.h"

#include <gtest/gtest.h>

#include <string>

namespace lockstep {
namespace {

TEST(OpsPage, TheEndOfTheFileIsWhatTheRulesSay) {
  const std::string page = global::ops_page();
  const std::string file = test::read_file(LOCKSTEP_OPS_PAGE);
  const std::string note = page.substr(0, page.find('\n') + 1);
  EXPECT_TRUE(file.find(note) != std::string::npos && file.substr(file.find(note)) == page)
      << LOCKSTEP_OPS_PAGE << " does not end with what the rules say; write its end again: sed -i '/^"
      << note.substr(0, 36) << "/,$d' " << LOCKSTEP_OPS_PAGE << " && " << LOCKSTEP_OPS_PAGE_PROGRAM << " >> "
      << LOCKSTEP_OPS_PAGE;
}

}  // namespace
}  // namespace lockstep

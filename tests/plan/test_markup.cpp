#include <lockstep/plan/report/markup.h>

#include <gtest/gtest.h>

namespace lockstep::plan {
namespace {

TEST(Markup, WhatMeansSomethingThereIsWrittenAsAName) {
  EXPECT_EQ(escaped_markup("<a b=\"c\" d='e'> & &amp;"), "&lt;a b=&quot;c&quot; d=&#39;e&#39;&gt; &amp; &amp;amp;");
  EXPECT_EQ(escaped_markup("layer1.0/weight \u00e9"), "layer1.0/weight \u00e9");
}

}  // namespace
}  // namespace lockstep::plan

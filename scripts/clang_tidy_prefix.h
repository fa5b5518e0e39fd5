// For clang-tidy alone, before everything else. libtorch 1.13 has a std::vector of a type that is not complete yet.
// clang refuses that where the members of vector are constexpr, as in libstdc++ 12, so here they are not.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <tuple>
#undef _GLIBCXX20_CONSTEXPR
#define _GLIBCXX20_CONSTEXPR
#define __fill_a1 __fill_a1_of_bool  // declared constexpr above, defined in <vector>
#include <vector>
#undef __fill_a1
#undef _GLIBCXX20_CONSTEXPR
#define _GLIBCXX20_CONSTEXPR constexpr

// Which operators of libtorch a piece of code runs.
#pragma once

#include <ATen/record_function.h>

#include <functional>
#include <memory>
#include <set>
#include <string>

namespace lockstep::test {

/// The names ("aten::mm") of the operators that `body` runs on this thread, each as often as it ran.
inline std::multiset<std::string> operators_run(const std::function<void()>& body) {
  static thread_local std::multiset<std::string> seen;
  seen.clear();
  const auto handle = at::addThreadLocalCallback(
      at::RecordFunctionCallback([](const at::RecordFunction& function) -> std::unique_ptr<at::ObserverContext> {
        seen.insert(function.name());
        return nullptr;
      }).scopes({at::RecordScope::FUNCTION}));
  const std::shared_ptr<void> until_the_end(nullptr, [handle](void*) { at::removeCallback(handle); });
  body();
  return seen;
}

}  // namespace lockstep::test

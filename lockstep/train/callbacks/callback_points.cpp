// The calls of a run's callbacks, sorted by priority, with unique names: points, state for checkpoints, error texts.
#include <lockstep/base/error.h>
#include <lockstep/comm/group.h>
#include <lockstep/state/tensors.h>
#include <lockstep/train/callbacks/callback_points.h>

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>
#include <c10/util/Type.h>

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <typeinfo>
#include <utility>

namespace lockstep::train {

std::string Callback::name() const { return c10::demangle(typeid(*this).name()); }

CallbackState Callback::state() const { return {}; }

CallbackPoints::CallbackPoints(Callbacks callbacks) {
  std::ranges::stable_sort(callbacks, {}, [](const auto& each) { return each->priority(); });
  std::map<std::string, int> seen;
  for (auto& callback : callbacks) {
    auto name = callback->name();
    std::ranges::replace(name, '.', '_');  // names of tensors begin with it
    const int number = ++seen[name];
    if (number > 1) name += fmt::format("#{}", number);
    callbacks_.push_back({std::move(name), std::move(callback)});
  }
}

void CallbackPoints::rethrow(const std::string& name, std::string_view point) {
  const auto words = [&](std::string_view reason) { return fmt::format("callback {}, {}: {}", name, point, reason); };
  try {
    throw;
  } catch (const Error& error) {
    if (is_loss(error)) throw;
    throw Error(error.kind(), error.where(), words(error.message()), error.position());
  } catch (const c10::Error& error) {
    throw std::runtime_error(words(error.what_without_backtrace()));
  } catch (const std::exception& error) {
    throw std::runtime_error(words(error.what()));
  } catch (...) {
    throw std::runtime_error(words("something was thrown that is not a std::exception"));
  }
}

CallbackState CallbackPoints::state_of(const Named& each) {
  try {
    return each.callback->state();
  } catch (...) {
    rethrow(each.name, "state");
  }
}

std::map<std::string, std::string, std::less<>> CallbackPoints::texts() const {
  std::map<std::string, std::string, std::less<>> texts;
  for (const auto& each : callbacks_) {
    if (auto text = state_of(each).text; !text.empty()) texts.emplace(each.name, std::move(text));
  }
  return texts;
}

NamedTensors CallbackPoints::tensors() const {
  NamedTensors tensors;
  for (const auto& each : callbacks_) add_part(tensors, each.name, state_of(each).tensors);
  return tensors;
}

void CallbackPoints::restore(const std::map<std::string, std::string, std::less<>>& texts,
                             const NamedTensors& tensors) const {
  for (const auto& [name, callback] : callbacks_) {
    const auto text = texts.find(name);
    CallbackState state{text == texts.end() ? std::string() : text->second, part_of(tensors, name)};
    if (state.text.empty() && state.tensors.empty()) continue;
    try {
      callback->restore(state);
    } catch (...) {
      rethrow(name, "restore");
    }
  }
}

}  // namespace lockstep::train

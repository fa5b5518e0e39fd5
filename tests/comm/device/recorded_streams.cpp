#include "comm/device/recorded_streams.h"

#include <c10/core/Stream.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <cstddef>
#include <mutex>
#include <set>
#include <utility>

namespace lockstep::test {
namespace {

constexpr auto kType = c10::DeviceType::XLA;
constexpr c10::StreamId kLane = 7;

struct Recorded {
  std::mutex mutex;
  std::vector<std::string> notes;
  std::set<std::ptrdiff_t> passed;
  std::ptrdiff_t events = 0;
  bool pass_all = false;
};

Recorded& recorded() {
  static Recorded all;
  return all;
}

std::string name_of(const c10::Stream& stream) { return stream.id() == kLane ? "lane" : "current"; }

void* as_event(std::ptrdiff_t number) { return static_cast<std::byte*>(nullptr) + number; }
std::ptrdiff_t number_of(const void* event) {
  return static_cast<const std::byte*>(event) - static_cast<std::byte*>(nullptr);
}

class RecordedStreams final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return kType; }
  c10::Device exchangeDevice(c10::Device) const override { return recorded_device(); }
  c10::Device getDevice() const override { return recorded_device(); }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }

  c10::Stream getStream(c10::Device device) const noexcept override {
    return c10::Stream(c10::Stream::DEFAULT, device);
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override {
    return c10::Stream(c10::Stream::UNSAFE, device, kLane);
  }
  c10::Stream exchangeStream(c10::Stream stream) const noexcept override { return stream; }

  void record(void** event, const c10::Stream& stream, c10::DeviceIndex, c10::EventFlag) const override {
    auto& all = recorded();
    const std::lock_guard lock(all.mutex);
    *event = as_event(++all.events);
    all.notes.push_back("record " + std::to_string(all.events) + " on " + name_of(stream));
  }
  void block(void* event, const c10::Stream& stream) const override {
    note(name_of(stream) + " waits for " + std::to_string(number_of(event)));
  }
  bool queryEvent(void* event) const override {
    auto& all = recorded();
    const std::lock_guard lock(all.mutex);
    return all.pass_all || all.passed.contains(number_of(event));
  }
  void destroyEvent(void*, c10::DeviceIndex) const noexcept override {}
  void recordDataPtrOnStream(const c10::DataPtr&, const c10::Stream& stream) const override {
    note(name_of(stream) + " uses memory");
  }
};

C10_REGISTER_GUARD_IMPL(XLA, RecordedStreams);

}  // namespace

void note(std::string text) {
  auto& all = recorded();
  const std::lock_guard lock(all.mutex);
  all.notes.push_back(std::move(text));
}

std::vector<std::string> take_notes() {
  auto& all = recorded();
  const std::lock_guard lock(all.mutex);
  return std::exchange(all.notes, {});
}

void pass_event(int number) {
  auto& all = recorded();
  const std::lock_guard lock(all.mutex);
  all.passed.insert(number);
}

void pass_all_events() {
  auto& all = recorded();
  const std::lock_guard lock(all.mutex);
  all.pass_all = true;
}

void forget_streams() {
  auto& all = recorded();
  const std::lock_guard lock(all.mutex);
  all.notes.clear();
  all.passed.clear();
  all.events = 0;
  all.pass_all = false;
}

c10::Device recorded_device() { return {kType, 0}; }

}  // namespace lockstep::test

// Streams and events that only note down what happens to them, as a device type that libtorch does not use here. They
// stand in for a device where there is none; tests/comm/device/test_gpu.cpp asks the same of a real one.
#pragma once

#include <c10/core/Device.h>

#include <string>
#include <vector>

namespace lockstep::test {

/// What happened since the last call, such as "record 1 on current", "lane waits for 1", "lane uses memory".
std::vector<std::string> take_notes();
/// Adds to the notes.
void note(std::string text);

/// The device has got past the event with this number; numbers count from 1 in the order of their records.
void pass_event(int number);
/// From now on the device gets past events as soon as they are recorded.
void pass_all_events();
/// Forgets all, and begins to count anew.
void forget_streams();

/// The device whose streams these are.
c10::Device recorded_device();

}  // namespace lockstep::test

// A network device of Gloo, from which Lockstep derives; see ../context.h.
#pragma once

#include <memory>
#include <string>

namespace gloo::transport {

class Context;

/// Virtual functions are in the order of libtorch's table.
class Device {
 public:
  virtual ~Device() = 0;

  virtual std::string str() const = 0;
  virtual const std::string& getPCIBusID() const = 0;
  virtual int getInterfaceSpeed() const { return 0; }
  virtual bool hasGPUDirect() const { return false; }
  virtual std::shared_ptr<Context> createContext(int rank, int size) = 0;
};

}  // namespace gloo::transport

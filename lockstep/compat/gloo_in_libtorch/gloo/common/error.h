// An empty header: c10d's header includes this name, and uses nothing of it (see context.h).
#pragma once

/* Stands in for NVIDIA's driver and the runtime libraries, so that the program's answers to a bad one can be seen where there
 * is none: one device, of a capability and with a driver's version and faults that environment variables tell. */
#include <stdlib.h>
#include <string.h>

static int told(const char *name, int otherwise) {
    const char *value = getenv(name);
    return value == NULL ? otherwise : atoi(value);
}

int cuDriverGetVersion(int *version) {
    *version = told("STAND_IN_DRIVER", 13000);
    return 0;
}

int cuInit(unsigned flags) {
    (void)flags;
    return told("STAND_IN_INIT", 0);
}

int cuDeviceGetCount(int *count) {
    *count = 1;
    return 0;
}

int cuDeviceGet(int *device, int ordinal) {
    *device = ordinal;
    return 0;
}

int cuDeviceGetName(char *name, int length, int device) {
    (void)device;
    strncpy(name, "Stand-in", (size_t)length);
    return 0;
}

int cuDeviceTotalMem_v2(size_t *bytes, int device) {
    (void)device;
    *bytes = (size_t)8 << 30;
    return 0;
}

int cuDeviceGetAttribute(int *value, int attribute, int device) {
    (void)device;
    int capability = told("STAND_IN_CAPABILITY", 90);
    *value = attribute == 75 ? capability / 10 : attribute == 76 ? capability % 10 : 0;
    return 0;
}

/* Every program that computes begins here, and gets no further. */
int cuDevicePrimaryCtxRetain(void **context, int device) {
    (void)context;
    (void)device;
    return told("STAND_IN_CONTEXT", 2);
}

int cuGetErrorString(int error, const char **text) {
    (void)error;
    *text = "said by the stand-in";
    return 0;
}

int cublasGetProperty(int which, int *value) {
    *value = which == 0 ? 13 : 7;
    return 0;
}

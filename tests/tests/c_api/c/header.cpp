#include <mgcomp.h>
#include <mgcomp.h>

int main(void)
{
    return mgcompAbiVersion() == MGCOMP_ABI_VERSION ? 0 : 1;
}

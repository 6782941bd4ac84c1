// int80 makes a system call of the 32-bit ABI, whose numbers a filter for 64-bit
// programs would misread.
#include <errno.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
	const long getpid32 = 20;
	long r;
	__asm__ volatile("int $0x80" : "=a"(r) : "a"(getpid32) : "memory", "r8", "r9", "r10", "r11");
	if (r >= 0)
		return 0;
	puts(strerror(-r));
	return 1;
}
